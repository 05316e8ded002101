//! The files of `gevals emit`: each one conforms to the API of its engine, and its scripts are run unchanged, in a
//! directory that replaces the volume.
//!
//! Kubernetes: the Job is sent to a real API (`KUBEBUILDER_ASSETS`; otherwise this is not run) and converted through
//! the types of Kubernetes 1.33, because the API may be older and drop unknown fields. Argo and Tekton: the JSON
//! Schemas in `engines/`, and a real API on which their resources are installed. Each method must detect injected faults.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::process::CommandExt,
    process::Command,
};

use gevals::pack::{self, Manifest, Need};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{
    packed::{EVAL, json, told},
    world::{self, World},
};

const GOOD: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: good}
spec:
  prompt: Do it.
  verify: [{command: {run: \"test -d /tmp\"}}]
";
const BAD: &str = "kind: Task
apiVersion: mcp-eval/v1
metadata: {name: bad}
spec:
  env: {KEY: \"{env.SHOP_TOKEN}\", PLACE: \"{env.NO}\"}
  prompt: Do it.
  verify: [{command: {run: \"test -f note.txt\"}}]
";
const SECRET: &str = "long-enough-to-be-secret";

/// Engines that start pods.
const PODS: [&str; 3] = ["kubernetes-job", "argo", "tekton"];
const MOUNT: &str = "/evals";

/// An eval in its own directory: one task that passes, and one that fails, which requires a secret and a variable whose
/// name is a reserved word in YAML.
fn suite() -> World {
    let world = World::new(&[
        ("p/gevals.toml", ""),
        ("p/eval.yaml", EVAL),
        ("p/tasks/a/task.yaml", GOOD),
        ("p/tasks/b/task.yaml", BAD),
    ]);
    for_engines(&world);
    world
}

fn pack_up(world: &World, args: &[&str]) {
    let mut packing = world.command(&[&["pack", "p"], args].concat());
    packing.env("SHOP_TOKEN", SECRET).env("NO", "no");
    world.start(packing).end().expect(0, &[]);
}

/// A program named `gevals`, as the jobs of engines call it.
fn for_engines(world: &World) {
    world.program("gevals", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", world::gevals().to_str().unwrap()));
}

/// A `gevals` that exits with this status when it should run a unit.
fn broken(world: &World, code: u8) {
    let gevals = world::gevals();
    let gevals = gevals.to_str().unwrap();
    let text = format!(
        "#!/bin/sh\ncase $1 in exec-unit) echo {code} >>WORLD/tried; exit {code};; esac\nexec '{gevals}' \"$@\"\n"
    );
    world.program("gevals", &text);
}

/// Kills all processes of a world at once, as when a node is lost.
fn lose(world: &World) {
    let mark = format!("GEVALS_TEST_WORLD={}", world.path("").to_str().unwrap().trim_end_matches('/'));
    let marked = |id: i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let ids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut killed = 0;
    for id in ids.filter(|id| marked(*id)) {
        killed += usize::from(kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).is_ok());
    }
    assert!(killed >= 2, "a job and its unit: {killed}");
}

/// Returns all YAML documents of a text.
fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

fn emitted(world: &World, engine: &str, args: &[&str]) -> String {
    let args = [&["emit", engine, "s.gevals", "--image", "registry.example/gevals:1"], args].concat();
    world.run(&args).expect(0, &[]).out
}

/// A container as an engine starts it.
#[derive(Clone, Debug)]
struct Container {
    command: Vec<String>,
    env: BTreeMap<String, String>,
}

/// Expands `$(NAME)` and `$$` as the kubelet does.
fn expanded(text: &str, env: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('$') {
            out.push('$');
            rest = behind;
        } else if let Some((name, behind)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            out.push_str(&env.get(name).cloned().unwrap_or_else(|| format!("$({name})")));
            rest = behind;
        } else {
            out.push('$');
        }
    }
    out + rest
}

impl Container {
    /// Creates a container from its description, with variables from the Secret and the ConfigMap of this name. `fill`
    /// fills in values.
    fn new(described: &Value, values: &str, fill: &dyn Fn(&str) -> String) -> Self {
        assert_eq!(described["workingDir"], MOUNT);
        assert_eq!(described["image"], "registry.example/gevals:1");
        let mut env = BTreeMap::new();
        for variable in described["env"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            let from = |kind: &str, value: &str| {
                let key = &variable["valueFrom"][kind];
                (key["name"] == values && key["key"] == name).then(|| value.to_owned())
            };
            let value = match name {
                "SHOP_TOKEN" => from("secretKeyRef", SECRET).unwrap(),
                "NO" => from("configMapKeyRef", "no").unwrap(),
                _ => expanded(&fill(variable["value"].as_str().unwrap()), &env),
            };
            assert_eq!(env.insert(name.to_owned(), value), None, "{name} is there twice");
        }
        let words = |key: &str| described[key].as_array().cloned().unwrap_or_default();
        let words: Vec<Value> = words("command").into_iter().chain(words("args")).collect();
        let command = match described["script"].as_str() {
            Some(script) => vec![fill(script)],
            None => words.iter().map(|word| expanded(&fill(word.as_str().unwrap()), &env)).collect(),
        };
        Self { command, env }
    }

    /// Returns a process that does what the container does, with a directory of this world in place of the volume.
    fn command(&self, world: &World) -> Command {
        let volume = world.path("evals");
        fs::create_dir_all(&volume).unwrap();
        let mut words = self.command.clone();
        if let [script] = &words[..] {
            // As Tekton does.
            world.write("script", script);
            world.executable("script");
            words = vec![world.path("script").to_str().unwrap().to_owned()];
        }
        let mut command = world.bare(words[0].as_ref());
        command.args(&words[1..]).current_dir(&volume).env("PATH", world.programs());
        for (name, value) in self.env.iter().filter(|(name, _)| *name != "HOME") {
            let value = match value.strip_prefix(MOUNT) {
                Some(rest) => format!("{}{rest}", volume.display()),
                None => value.clone(),
            };
            command.env(name, value);
        }
        command
    }
}

/// Returns the containers of the jobs in a file, and the one that merges.
fn containers(engine: &str, text: &str, values: &str) -> (Vec<Container>, Container) {
    let all = documents(text);
    let of = |kind: &str, name: &Value| {
        let found = all.iter().find(|one| one["kind"] == kind && (name.is_null() || one["metadata"]["name"] == *name));
        found.unwrap_or_else(|| panic!("no {kind} {name}")).clone()
    };
    let as_is = |text: &str| text.to_owned();
    match engine {
        "kubernetes-job" => {
            let (units, merge) = (&all[0]["spec"], &all[1]["spec"]);
            assert_eq!((units["completionMode"].as_str(), merge["suspend"].as_bool()), (Some("Indexed"), Some(true)));
            let container = |job: &Value| job["template"]["spec"]["containers"][0].clone();
            let nth = |index: u64| {
                let mut one = Container::new(&container(units), values, &as_is);
                one.env.insert("JOB_COMPLETION_INDEX".to_owned(), index.to_string());
                one
            };
            let jobs = (0..units["completions"].as_u64().unwrap()).map(nth).collect();
            (jobs, Container::new(&container(merge), values, &as_is))
        }
        "argo" => {
            let spec = &all[0]["spec"];
            let template = |name: &Value| {
                let all = spec["templates"].as_array().unwrap();
                all.iter().find(|one| one["name"] == *name).unwrap_or_else(|| panic!("no template {name}")).clone()
            };
            let task = template(&spec["entrypoint"])["dag"]["tasks"][0].clone();
            let sequence = |key: &str| task["withSequence"][key].as_str().unwrap().parse::<u32>().unwrap();
            let units = template(&task["template"]);
            assert_eq!(units["inputs"]["parameters"][0]["name"], task["arguments"]["parameters"][0]["name"]);
            let given = task["arguments"]["parameters"][0]["value"].as_str().unwrap();
            let nth = |item: u32| {
                let shard = given.replace("{{item}}", &item.to_string());
                let fill = |text: &str| text.replace("{{inputs.parameters.shard}}", &shard);
                Container::new(&units["container"], values, &fill)
            };
            let jobs = (sequence("start")..=sequence("end")).map(nth).collect();
            (jobs, Container::new(&template(&spec["onExit"])["container"], values, &as_is))
        }
        "tekton" => {
            let run = of("PipelineRun", &Value::Null);
            let pipeline = of("Pipeline", &run["spec"]["pipelineRef"]["name"])["spec"].clone();
            let step = |task: &Value| of("Task", &task["taskRef"]["name"])["spec"]["steps"][0].clone();
            let (units, merge) = (&pipeline["tasks"][0], &pipeline["finally"][0]);
            let nth = |shard: &Value| {
                let fill = |text: &str| text.replace("$(params.shard)", shard.as_str().unwrap());
                Container::new(&step(units), values, &fill)
            };
            let jobs = units["matrix"]["params"][0]["value"].as_array().unwrap().iter().map(nth).collect();
            (jobs, Container::new(&step(merge), values, &as_is))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_job_file_cannot_overwrite_its_pack() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals"]);
    let before = std::fs::read(world.path("s.gevals")).unwrap();
    world.run(&["emit", "slurm", "s.gevals", "-o", "./s.gevals"]).expect(2, &["is the pack and would be overwritten"]);
    assert_eq!(std::fs::read(world.path("s.gevals")).unwrap(), before);
}

#[test]
fn pods_run_all_units_and_one_pod_merges_the_results() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals", "-n", "2"]);
    let mut whole = world.command(&["run", "s.gevals", "-o", "whole"]);
    whole.env("SHOP_TOKEN", SECRET).env("NO", "no");
    world.start(whole).end().expect(1, &[]);
    for engine in PODS {
        let text = emitted(&world, engine, &["--jobs", "3"]);
        let name = names(&documents(&text)).pop_first().unwrap();
        let (jobs, merge) = containers(engine, &text, "gevals-e");
        assert_eq!(jobs.len(), 3, "{engine}");
        // The wrong pack, before anything runs.
        world.write("evals/s.gevals", "another one");
        world.start(jobs[0].command(&world)).end().expect(2, &["is not the pack that this file was made for"]);
        assert!(!world.path("evals").join(&name).exists());
        fs::copy(world.path("s.gevals"), world.path("evals/s.gevals")).unwrap();
        for job in &jobs {
            // A failed task does not fail its job.
            world.start(job.command(&world)).end().expect(0, &[]);
        }
        // One of the tasks fails, which `result verify` reports; `xargs` turns that into status 123.
        world.start(merge.command(&world)).end().expect(123, &["4 results of 4 files", "`bad`"]);
        let merged = json(&world, &format!("evals/{name}/results/results.json"));
        assert_eq!(told(&merged), told(&json(&world, "whole/gevals-e-out.json")));
        assert_eq!(merged["summary"]["complete"], true);
        // If a unit is missing, there is no verdict.
        let units = world.path("evals").join(&name).join("units");
        let unit = fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
        fs::remove_dir_all(unit).unwrap();
        world.start(merge.command(&world)).end().expect(1, &["is missing"]);
        // A unit that could not run fails its job, but the next ones still run.
        for (code, tried) in [(2, "2\n2\n"), (3, "3\n3\n")] {
            broken(&world, code);
            world.start(jobs[0].command(&world)).end().expect(code.into(), &[]);
            assert_eq!(world.read("tried"), tried);
            fs::remove_file(world.path("tried")).unwrap();
        }
        for_engines(&world);
        fs::remove_dir_all(world.path("evals")).unwrap();
    }
}

/// Creates a file, and waits until it is killed, the first time.
const SLOW: &str = r#"kind: Task
apiVersion: mcp-eval/v1
metadata: {name: slow}
spec:
  prompt: Do it.
  setup:
    - command: {run: "test ! -e WORLD/made && touch WORLD/made"}
    - command: {run: "touch WORLD/here; test -e WORLD/quick || exec sleep 300"}
  verify: [{command: {run: "test -f WORLD/made"}}]
  cleanup: [{command: {run: "echo cleaned >> WORLD/log; rm WORLD/made"}}]
"#;

fn slow() -> World {
    let world = World::new(&[("p/gevals.toml", ""), ("p/eval.yaml", EVAL), ("p/tasks/a/task.yaml", SLOW)]);
    for_engines(&world);
    pack_up(&world, &["-o", "s.gevals"]);
    fs::create_dir(world.path("evals")).unwrap();
    fs::copy(world.path("s.gevals"), world.path("evals/s.gevals")).unwrap();
    world
}

#[test]
fn the_next_attempt_cleans_up_after_a_lost_pod() {
    for engine in PODS {
        let world = slow();
        let (jobs, merge) = containers(engine, &emitted(&world, engine, &[]), "gevals-e");
        let lost = world.start(jobs[0].command(&world));
        world.wait_for("here");
        lose(&world);
        lost.end();
        assert_eq!((world.path("made").exists(), world.read("log").as_str()), (true, ""), "{engine}");
        // The setup would fail if it found what was left behind.
        world.write("quick", "");
        world.start(jobs[0].command(&world)).end().expect(0, &["cleanup/0 is done"]);
        assert_eq!((world.path("made").exists(), world.read("log").as_str()), (false, "cleaned\ncleaned\n"));
        world.start(merge.command(&world)).end().expect(0, &["1 results of 1 files"]);
        assert_eq!(world.survivors(), Vec::<String>::new());
    }
}

#[test]
fn a_stopped_pod_lets_its_unit_clean_up() {
    for engine in PODS {
        let world = slow();
        let (jobs, merge) = containers(engine, &emitted(&world, engine, &[]), "gevals-e");
        let mut command = jobs[0].command(&world);
        // The wrappers that Argo and Tekton put before a container signal its process group, so the unit receives the
        // signal a second time.
        command.process_group(0);
        let running = world.start(command);
        world.wait_for("here");
        let id = Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap();
        match engine {
            "kubernetes-job" => kill_process(id, Signal::TERM).unwrap(),
            _ => kill_process_group(id, Signal::TERM).unwrap(),
        }
        running.end().expect(143, &[]);
        assert_eq!((world.path("made").exists(), world.read("log").as_str()), (false, "cleaned\n"), "{engine}");
        assert_eq!(world.survivors(), Vec::<String>::new());
        // The merge reports it as interrupted.
        world.start(merge.command(&world)).end().expect(1, &["was interrupted"]);
    }
}

/// A signal before the unit has started also stops the job.
#[test]
fn a_job_that_is_stopped_early_starts_no_unit() {
    let world = slow();
    let gevals = world::gevals();
    let gevals = gevals.to_str().unwrap();
    world.program(
        "gevals",
        &format!("#!/bin/sh\ncase $*\nin *--ids*) touch WORLD/asked; sleep 1;; esac\nexec '{gevals}' \"$@\"\n"),
    );
    let (jobs, _) = containers("kubernetes-job", &emitted(&world, "kubernetes-job", &[]), "gevals-e");
    let running = world.start(jobs[0].command(&world));
    world.wait_for("asked");
    running.signal(Signal::TERM);
    running.end().expect(143, &[]);
    assert!(!world.path("here").exists());
}

fn names(documents: &[Value]) -> BTreeSet<String> {
    documents.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the faults of a file, as far as the descriptions of its objects show.
fn faults(text: &str) -> Vec<String> {
    documents(text).iter().flat_map(|document| fault(document).err()).collect()
}

fn fault(document: &Value) -> Result<(), String> {
    let kind = format!("{} {}", document["apiVersion"].as_str().unwrap(), document["kind"].as_str().unwrap());
    match &*kind {
        #[cfg(feature = "kubernetes")]
        "batch/v1 Job" => of_kubernetes::whole(document),
        #[cfg(not(feature = "kubernetes"))]
        "batch/v1 Job" => Ok(()),
        "argoproj.io/v1alpha1 Workflow" => described(include_str!("engines/argo.json"), document),
        "tekton.dev/v1 Task" | "tekton.dev/v1 Pipeline" | "tekton.dev/v1 PipelineRun" => {
            described(include_str!("engines/tekton.json"), document)
        }
        other => Err(format!("no description of {other}")),
    }
}

/// Checks an object with a schema.
fn described(schemas: &str, document: &Value) -> Result<(), String> {
    let mut schemas: Value = serde_json::from_str(schemas).unwrap();
    let schema = schemas[document["kind"].as_str().unwrap()].take();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<_> = schema.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Faults in the emitted files of each engine: a text, and its replacement.
const EDITS: &[(&str, &[(&str, &str)])] = &[
    #[cfg(feature = "kubernetes")]
    (
        "kubernetes-job",
        &[
            ("completionMode:", "completionmode:"),
            ("backoffLimitPerIndex: 1", "backoffLimitPerIndex: one"),
            ("values: [2]", "values: [two]"),
            ("status: \"True\"", "state: \"True\""),
            ("  template:\n", "  restartPolicy: Never\n  template:\n"),
            ("      terminationGracePeriodSeconds:", "      terminationGraceSeconds:"),
            ("secretKeyRef", "secretRef"),
            ("seccompProfile: {type", "seccompProfile: {kind"),
            ("claimName", "name"),
            ("suspend: true", "suspended: true"),
        ],
    ),
    (
        "argo",
        &[
            ("failFast: false", "failfast: false"),
            ("withSequence: {start", "withSequence: {begin"),
            ("entrypoint: all", "entrypoint: [all]"),
            ("      retryStrategy:\n", "      retry:\n"),
            ("        retryPolicy:", "        policy:"),
            ("      container:\n", "      containers:\n"),
            ("mountPath:", "path:"),
            ("capabilities: {drop", "capabilities: {remove"),
            ("onExit:", "onexit:"),
        ],
    ),
    (
        "tekton",
        &[
            ("      retries: 1", "      retry: 1"),
            ("      matrix:\n        params:", "      matrix:\n        parameters:"),
            ("mountPath:", "path:"),
            ("timeouts: {pipeline", "timeouts: {whole"),
            ("taskRunTemplate:", "podTemplate:"),
            ("      script: |", "      scripts: |"),
            ("workspace: evals}", "workspaces: evals}"),
            ("finally:\n", "last:\n"),
            ("persistentVolumeClaim:", "claim:"),
            ("taskRef: {name", "taskRef: {called"),
        ],
    ),
];

#[test]
fn emitted_files_match_the_schemas_of_the_engines() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals", "-n", "2"]);
    for (engine, edits) in EDITS {
        for jobs in [&["--jobs", "1"][..], &[], &["--store", "s3://evals/nightly"]] {
            let text = emitted(&world, engine, jobs);
            assert_eq!(faults(&text), Vec::<String>::new(), "{engine}\n{text}");
            for (from, to) in *edits {
                let wrong = text.replacen(from, to, 1);
                assert_ne!(wrong, text, "{engine}: {from}");
                assert_ne!(faults(&wrong), Vec::<String>::new(), "{engine}: `{to}` is not found");
            }
        }
    }
}

/// Checks with the types of Kubernetes: a field that is unknown or in the wrong place is lost in the conversion.
#[cfg(feature = "kubernetes")]
mod of_kubernetes {
    use gevals::cluster::plane;
    use k8s_openapi::{
        api::{
            batch::v1::Job,
            core::v1::{Container, Pod},
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    };
    use kube::{
        Api, Client, Config,
        api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
        config::{KubeConfigOptions, Kubeconfig},
        runtime::wait::{await_condition, conditions},
    };
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Value, json};

    use super::*;

    fn through<T: Serialize + DeserializeOwned>(document: &Value) -> Result<(), String> {
        let typed: T = serde_json::from_value(document.clone()).map_err(|error| error.to_string())?;
        let known = serde_json::to_value(typed).unwrap();
        if known == *document { Ok(()) } else { Err(format!("of\n{document:#}\nthis is known:\n{known:#}")) }
    }

    pub fn whole(document: &Value) -> Result<(), String> {
        through::<Job>(document)
    }

    /// Argo uses the containers of Kubernetes.
    #[test]
    fn containers_of_workflows_are_valid_kubernetes_containers() {
        let world = suite();
        pack_up(&world, &["-o", "s.gevals"]);
        let workflow = documents(&emitted(&world, "argo", &[])).remove(0);
        let templates = workflow["spec"]["templates"].as_array().unwrap();
        let mut containers = templates.iter().map(|one| &one["container"]).filter(|one| !one.is_null());
        // Argo calls a container without a name `main`.
        let named = |container: &Value| {
            let mut named = container.clone();
            named["name"] = "main".into();
            named
        };
        assert_eq!(containers.clone().count(), 2);
        containers.try_for_each(|one| through::<Container>(&named(one))).unwrap();
    }

    /// The pod in the documentation that copies files to the claim.
    #[test]
    fn the_documented_pod_is_valid() {
        let text = include_str!("../docs/scale.md");
        let pod = text.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
        through::<Pod>(&documents(pod)[0]).unwrap();
        assert!(through::<Pod>(&documents(&pod.replace("command:", "commands:"))[0]).is_err());
    }

    #[test]
    fn a_real_api_accepts_the_jobs() {
        if !plane::missing().is_empty() {
            eprintln!("NOT RUN: no Kubernetes control plane (set KUBEBUILDER_ASSETS)");
            return;
        }
        let world = suite();
        pack_up(&world, &["-o", "s.gevals"]);
        let text = emitted(&world, "kubernetes-job", &[]);
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = plane::up(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said: Vec<_> = runtime.block_on(async {
            let config = Kubeconfig::read_from(kubeconfig).unwrap();
            let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            let jobs: Api<Job> = Api::namespaced(Client::try_from(config).unwrap(), "default");
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let faults = [
                ("  name: gevals-e-", "  name: Gevals-e-"),
                ("restartPolicy: Never", "restartPolicy: Always"),
                ("runAsUser: 65532", "runAsUser: -1"),
                ("- {name: evals, mountPath", "- {name: other, mountPath"),
                ("name: \"SHOP_TOKEN\"", "name: \"SHOP TOKEN\""),
            ];
            let wrong = faults.iter().map(|(from, to)| {
                let wrong = text.replacen(from, to, 1);
                assert_ne!(wrong, text, "{from}");
                documents(&wrong).remove(0)
            });
            let mut said = Vec::new();
            for document in documents(&text).into_iter().chain(wrong) {
                let job: Job = serde_json::from_value(document).unwrap();
                said.push(jobs.create(&dry, &job).await.map(|_| ()).map_err(|error| error.to_string()));
            }
            said
        });
        plane::down(folder.path()).unwrap();
        assert_eq!(said[..2], [Ok(()), Ok(())]);
        assert!(
            said.len() == 7 && said[2..].iter().all(|said| said.as_ref().is_err_and(|e| e.contains("invalid"))),
            "{said:#?}"
        );
    }

    /// The custom resource definition of a kind, with a schema from `engines/`.
    fn definition(schemas: &Value, group: &str, version: &str, kind: &str) -> Value {
        let schema = &schemas[kind];
        let mut whole = structural(schema, &schema["$defs"], &[]).unwrap();
        whole["properties"]["metadata"] = json!({"type": "object"});
        let plural = format!("{}s", kind.to_lowercase());
        let version = json!({"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": whole}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{group}"),
                "annotations": {"api-approved.kubernetes.io": "unapproved"},
            },
            "spec": {
                "group": group,
                "names": {"kind": kind, "plural": plural},
                "scope": "Namespaced",
                "versions": [version],
            },
        })
    }

    /// A JSON Schema in the form that the API accepts. `None` for a part that no object may have: the API drops fields
    /// that the schema does not list. `inside`: the shared parts that contain this one. As in Argo's own definitions, a part
    /// that contains itself may be anything.
    fn structural(schema: &Value, shared: &Value, inside: &[&str]) -> Option<Value> {
        let anything = || json!({"x-kubernetes-preserve-unknown-fields": true});
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap();
            return match inside.contains(&name) {
                true => Some(anything()),
                false => structural(&shared[name], shared, &[inside, &[name]].concat()),
            };
        }
        let given = match schema {
            Value::Bool(false) => return None,
            Value::Bool(true) => return Some(anything()),
            given => given.as_object().unwrap(),
        };
        if given.is_empty() {
            return Some(anything());
        }
        if given.contains_key("anyOf") || given.get("type").is_some_and(Value::is_array) {
            return Some(json!({"x-kubernetes-int-or-string": true}));
        }
        let mut kept = serde_json::Map::new();
        for (key, value) in given {
            let new = match key.as_str() {
                "$defs" => continue,
                "properties" => {
                    let fields = value.as_object().unwrap().iter();
                    json!(
                        fields
                            .filter_map(|(name, part)| Some((name.clone(), structural(part, shared, inside)?)))
                            .collect::<serde_json::Map<_, _>>()
                    )
                }
                "additionalProperties" if value.is_boolean() => continue,
                "items" | "additionalProperties" => structural(value, shared, inside)?,
                "const" => {
                    kept.insert("type".to_owned(), "string".into());
                    kept.insert("enum".to_owned(), json!([value]));
                    continue;
                }
                _ => value.clone(),
            };
            kept.insert(key.clone(), new);
        }
        Some(Value::Object(kept))
    }

    /// The first field that the API does not return as it was sent.
    fn dropped(sent: &Value, kept: &Value, at: &str) -> Option<String> {
        match (sent, kept) {
            (Value::Object(sent), Value::Object(kept)) => sent.iter().find_map(|(name, value)| {
                let at = format!("{at}.{name}");
                kept.get(name).map_or(Some(at.clone()), |kept| dropped(value, kept, &at))
            }),
            (Value::Array(sent), Value::Array(kept)) if sent.len() == kept.len() => {
                sent.iter().zip(kept).find_map(|(sent, kept)| dropped(sent, kept, at))
            }
            _ => (sent != kept).then(|| at.to_owned()),
        }
    }

    /// Sends an object to the API, and returns the fault that the API finds, if any.
    async fn refusal(client: &Client, document: &Value) -> Option<String> {
        let object: DynamicObject = serde_json::from_value(document.clone()).unwrap();
        let (group, version) = document["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = GroupVersionKind::gvk(group, version, document["kind"].as_str().unwrap());
        let objects: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        match objects.create(&dry, &object).await {
            Ok(kept) => dropped(document, &serde_json::to_value(kept).unwrap(), "").map(|at| format!("unknown: {at}")),
            Err(error) => Some(error.to_string()),
        }
    }

    /// A real API with the resources of Argo and Tekton installed accepts the emitted files, and refuses those with faults.
    #[test]
    fn a_real_api_accepts_workflows_and_pipelines() {
        if !plane::missing().is_empty() {
            eprintln!("NOT RUN: no Kubernetes control plane (set KUBEBUILDER_ASSETS)");
            return;
        }
        let world = suite();
        pack_up(&world, &["-o", "s.gevals", "-n", "2"]);
        let schemas = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (argo, tekton) = (schemas(include_str!("engines/argo.json")), schemas(include_str!("engines/tekton.json")));
        let definitions = [
            definition(&argo, "argoproj.io", "v1alpha1", "Workflow"),
            definition(&tekton, "tekton.dev", "v1", "Task"),
            definition(&tekton, "tekton.dev", "v1", "Pipeline"),
            definition(&tekton, "tekton.dev", "v1", "PipelineRun"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = plane::up(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let config = Kubeconfig::read_from(kubeconfig).unwrap();
            let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
            let client = Client::try_from(config).unwrap();
            let installed: Api<CustomResourceDefinition> = Api::all(client.clone());
            for definition in definitions {
                let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
                let definition = serde_json::from_value(definition).unwrap();
                installed.create(&PostParams::default(), &definition).await.unwrap();
                await_condition(installed.clone(), &name, conditions::is_crd_established()).await.unwrap();
            }
            for (engine, edits) in EDITS.iter().filter(|(engine, _)| *engine != "kubernetes-job") {
                for jobs in [&["--jobs", "1"][..], &[], &["--store", "s3://evals/nightly"]] {
                    let text = emitted(&world, engine, jobs);
                    for document in documents(&text) {
                        assert_eq!(refusal(&client, &document).await, None, "{engine}\n{text}");
                    }
                    for (from, to) in *edits {
                        let mut refused = false;
                        for document in documents(&text.replacen(from, to, 1)) {
                            refused |= refusal(&client, &document).await.is_some();
                        }
                        assert!(refused, "{engine}: `{to}` is accepted");
                    }
                }
            }
        });
        plane::down(folder.path()).unwrap();
    }
}

/// The requirements of the profile `restricted` of the pod security standards.
#[test]
fn pods_meet_the_restricted_security_profile() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals"]);
    for engine in PODS {
        let all = documents(&emitted(&world, engine, &[]));
        let (pods, containers): (Vec<Value>, Vec<Value>) = match engine {
            "kubernetes-job" => {
                let pods: Vec<Value> = all.iter().map(|job| job["spec"]["template"]["spec"].clone()).collect();
                for pod in &pods {
                    assert_eq!(pod["automountServiceAccountToken"], false);
                }
                let containers = pods.iter().map(|pod| pod["containers"][0].clone()).collect();
                (pods, containers)
            }
            "argo" => {
                let templates = all[0]["spec"]["templates"].as_array().unwrap().clone();
                let containers = templates.iter().map(|one| one["container"].clone()).filter(|one| !one.is_null());
                (vec![all[0]["spec"].clone()], containers.collect())
            }
            _ => {
                let pod = all[3]["spec"]["taskRunTemplate"]["podTemplate"].clone();
                assert_eq!(pod["automountServiceAccountToken"], false);
                (vec![pod], all[..2].iter().map(|task| task["spec"]["steps"][0].clone()).collect())
            }
        };
        assert_eq!(containers.len(), 2, "{engine}");
        for pod in pods {
            let context = &pod["securityContext"];
            assert_eq!(
                (&context["runAsNonRoot"], &context["seccompProfile"]["type"]),
                (&true.into(), &"RuntimeDefault".into())
            );
            assert!(context["runAsUser"].as_u64().unwrap() > 0);
            for kind in ["hostPath", "hostNetwork", "hostPID", "hostIPC"] {
                assert!(!pod.to_string().contains(kind), "{engine}");
            }
        }
        for container in containers {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{engine}");
            assert_eq!(context["capabilities"], serde_json::json!({"drop": ["ALL"]}), "{engine}");
            assert_eq!(context["privileged"], Value::Null, "{engine}");
        }
    }
}

/// Time limit of a pod: the sum of its units' limits, plus a margin.
#[test]
fn the_time_limit_of_a_pod_is_derived_from_its_units() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals", "-n", "2"]);
    let listed: Value = serde_json::from_str(&world.run(&["units", "s.gevals", "--json"]).expect(0, &[]).out).unwrap();
    let times: Vec<u64> =
        listed["units"].as_array().unwrap().iter().map(|unit| unit["atMostSeconds"].as_u64().unwrap()).collect();
    let (all, longest) = (times.iter().sum::<u64>(), *times.iter().max().unwrap());
    let grace = longest.clamp(30, 600);
    for engine in PODS {
        let text = emitted(&world, engine, &["--jobs", "1"]);
        let number = |pattern: &str| {
            let found = Regex::new(pattern).unwrap().captures(&text).unwrap_or_else(|| panic!("{engine}: {pattern}"));
            found[1].parse::<u64>().unwrap()
        };
        let most = number(match engine {
            "tekton" => r"\n      timeout: (\d+)s\n      workingDir",
            _ => r"activeDeadlineSeconds: (\d+)\n +# The time for",
        });
        assert_eq!(most, all + grace + 600, "{engine}");
        match engine {
            "kubernetes-job" => assert_eq!(number(r"terminationGracePeriodSeconds: (\d+)"), grace),
            "argo" => assert_eq!(number(r#"podSpecPatch: '\{"terminationGracePeriodSeconds": (\d+)\}'"#), grace),
            _ => {
                let (pipeline, tasks, last) =
                    (number(r"pipeline: (\d+)s"), number(r"tasks: (\d+)s"), number(r"finally: (\d+)s"));
                assert!(pipeline >= tasks + last && tasks >= 2 * most, "{pipeline} {tasks} {last}");
            }
        }
    }
}

#[test]
fn names_are_valid_and_unique_per_pack() {
    let label = Regex::new("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$").unwrap();
    let world = suite();
    let mut seen: Vec<BTreeSet<String>> = Vec::new();
    let long = "An eval with a name that is longer than what Kubernetes allows for the name of an object, by far";
    for name in ["e", long, &format!("{long}!"), "Überall: 1.2", "---"] {
        world.write("p/eval.yaml", &EVAL.replace("name: e", &format!("name: {}", Value::from(name))));
        for runs in ["1", "2"] {
            pack_up(&world, &["-o", "s.gevals", "-n", runs]);
            let mut own = BTreeSet::new();
            for engine in PODS {
                let text = emitted(&world, engine, &[]);
                for name in names(&documents(&text)) {
                    // The host name of a pod consists of the name of its Job and its index.
                    assert!(label.is_match(&name) && name.len() + "-999".len() <= 63, "{name}");
                    own.insert(name);
                }
                assert_eq!(faults(&text), Vec::<String>::new(), "{name}: {engine}");
            }
            assert!(seen.iter().all(|other| other.is_disjoint(&own)), "{own:?} {seen:?}");
            seen.push(own);
        }
    }
}

/// A file has the same meaning whatever the names of the eval and of the pack's path.
#[test]
fn hostile_names_do_not_change_the_meaning_of_a_file() {
    let world = suite();
    let name =
        "x\u{2028}apiVersion: pwned\u{2029}a: &b [\u{feff}\"'`$(touch pwned) {{inputs}} $(params.shard) \u{1f980} # :";
    world.write("p/eval.yaml", &EVAL.replace("name: e", &format!("name: {}", Value::from(name))));
    pack_up(&world, &["-o", "s.gevals"]);
    let path = "$(HOME)$$a '; touch pwned; '\" \u{2028} x: y`touch pwned`";
    fs::create_dir(world.path("evals")).unwrap();
    world.run(&["emit", "argo", "s.gevals", "--image", "i", "--at", "{{workflow.name}}"]).expect(2, &["`{{`"]);
    world.run(&["emit", "tekton", "s.gevals", "--image", "i", "--at", "$(params.shard)"]).expect(2, &["`$(`"]);
    let held = Regex::new("name: (gevals-[^,]+), key").unwrap();
    for engine in PODS {
        let path = if engine == "tekton" { path.replace("$(", "$") } else { path.to_owned() };
        world.run(&["emit", engine, "s.gevals", "--image", "i", "--at", "a\u{85}b"]).expect(2, &["on a single line"]);
        fs::copy(world.path("s.gevals"), world.path("evals").join(&path)).unwrap();
        let text = emitted(&world, engine, &["--at", &format!("{MOUNT}/{path}")]);
        assert_eq!(faults(&text), Vec::<String>::new(), "{engine}\n{text}");
        let values = held.captures(&text).unwrap()[1].to_owned();
        let (jobs, _) = containers(engine, &text, &values);
        assert_eq!(jobs[0].env["PACK"], format!("{MOUNT}/{path}"), "{engine}");
        for job in &jobs {
            world.start(job.command(&world)).end().expect(0, &[]);
        }
    }
    let text = world.run(&["emit", "github-matrix", "s.gevals", "--at", "a\u{2028}b: c"]).expect(0, &[]).out;
    let (document, _) = workflow(&text);
    assert_eq!(document["env"]["PACK"].as_str(), Some("a\u{2028}b: c"));
    assert_eq!(document["name"].as_str(), Some(format!("gevals: {name}").as_str()));
    assert!(!world.path("pwned").exists() && !world.path("evals/pwned").exists());
}

/// A pack that gevals did not write may contain anything.
#[test]
fn hostile_packs_are_rejected_or_have_no_effect() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals"]);
    let (manifest, files) = pack::read(&fs::read(world.path("s.gevals")).unwrap()).unwrap();
    let hostile = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = manifest.clone();
        change(&mut manifest);
        fs::write(world.path("s.gevals"), pack::write(&manifest.sealed(), &files).unwrap()).unwrap();
    };
    hostile(&|manifest| manifest.gevals.push_str("; touch pwned"));
    for engine in ["slurm", "github-matrix"] {
        world.run(&["emit", engine, "s.gevals"]).expect(2, &["`0.1.0; touch pwned`, which is not a version"]);
    }
    let name = "x\napiVersion: v2\n\u{85}kind: y\r#!\u{1b}[2J$(touch pwned)${{ secrets.X }}";
    let need = |kind: &str, name: &str| Need { kind: kind.to_owned(), name: name.to_owned() };
    hostile(&|manifest| {
        manifest.name = name.to_owned();
        manifest.needs = vec![
            need("command", name),
            need("x\n- kind: y", "z"),
            need("variable", "A\nB"),
            need("variable", "A: 1"),
            need("variable", "$(touch pwned)"),
            need("variable", "SHOP_TOKEN"),
        ];
    });
    for engine in PODS {
        let text = emitted(&world, engine, &[]);
        assert_eq!(faults(&text), Vec::<String>::new(), "{engine}\n{text}");
        assert!(!text.contains(['\r', '\u{85}', '\u{1b}']), "{engine}");
        let variables = text.matches("valueFrom").count();
        assert_eq!(variables, 1, "{engine}: {text}");
    }
    let text = world.run(&["emit", "github-matrix", "s.gevals"]).expect(0, &[]).out;
    let (document, _) = workflow(&text);
    assert_eq!(document["name"], "gevals: an eval");
    let keys: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "on", "permissions", "env", "jobs"]);
    let script = world.run(&["emit", "slurm", "s.gevals"]).expect(0, &[]).out;
    let orders = script.lines().take_while(|line| !line.starts_with("set ")).filter(|line| !line.starts_with('#'));
    assert_eq!(orders.collect::<Vec<_>>(), [""; 0]);
    assert!(!world.path("pwned").exists());
}

#[test]
fn packs_that_pods_cannot_run_are_rejected() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals"]);
    let emit = |args: &[&str], said: &[&str]| {
        world.run(&[&["emit"], args].concat()).expect(2, said);
    };
    for engine in PODS {
        emit(&[engine, "s.gevals"], &[engine, "starts pods", "`--image`"]);
        emit(&[engine, "s.gevals", "--image", ""], &["`` is not an image"]);
        emit(&[engine, "s.gevals", "--image", "a b"], &["`a b` is not an image", "registry.example"]);
        emit(&[engine, "s.gevals", "--image", "i", "--claim", "A"], &["`A` is not a valid name of a claim"]);
        emit(&[engine, "s.gevals", "--image", "i", "--claim", "a..b"], &["is not a valid name of a claim"]);
        emit(&[engine, "s.gevals", "--image", "i", "--at", "/shared/s.gevals"], &["`/evals`", "`/shared/s.gevals`"]);
        let text = emitted(&world, engine, &["--claim", "of-team.b"]);
        assert!(text.contains("persistentVolumeClaim: {claimName: \"of-team.b\"}"), "{text}");
        // The name of the file is used, wherever it is on this machine.
        fs::create_dir_all(world.path("deep")).unwrap();
        fs::copy(world.path("s.gevals"), world.path("deep/t.gevals")).unwrap();
        let there = world.path("deep/t.gevals");
        let text = world.run(&["emit", engine, there.to_str().unwrap(), "--image", "i"]).expect(0, &[]).out;
        assert!(text.contains("value: \"/evals/t.gevals\""), "{text}");
    }
    for engine in ["slurm", "github-matrix"] {
        emit(&[engine, "s.gevals", "--image", "i"], &[engine, "starts no pods", "`--image`"]);
        emit(&[engine, "s.gevals", "--claim", "i"], &["starts no pods", "`--claim`"]);
    }
    emit(&["tekton", "s.gevals", "--image", "i", "--jobs", "257"], &["at most 256 jobs"]);
    // A variable that the script uses for something else.
    world.write("p/tasks/b/task.yaml", &BAD.replace("env.NO", "env.OUT"));
    let mut packing = world.command(&["pack", "p", "-o", "t.gevals"]);
    packing.env("SHOP_TOKEN", SECRET).env("OUT", "x");
    world.start(packing).end().expect(0, &[]);
    for engine in ["slurm", "github-matrix"] {
        emit(&[engine, "t.gevals"], &["a variable `OUT`"]);
    }
    emit(&["argo", "t.gevals", "--image", "i"], &["a variable `OUT`"]);
}

/// Runs the script of a job with bash, as an engine does.
fn job(world: &World, script: &str, env: &[(&str, &str)]) -> Command {
    let mut job = world.bare("bash".as_ref());
    job.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
    job.env("PATH", world.programs()).env("NO", "no").env("SHOP_TOKEN", SECRET).envs(env.iter().copied());
    job
}

/// Returns the scripts of a GitHub workflow by the IDs of their steps, and its document.
fn workflow(text: &str) -> (Value, impl Fn(&str, &str) -> String) {
    let document = documents(text).remove(0);
    let jobs = document["jobs"].clone();
    let script = move |job: &str, id: &str| {
        let steps = jobs[job]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["id"] == id).unwrap();
        assert_eq!(step["shell"], "bash");
        step["run"].as_str().unwrap().to_owned()
    };
    (document, script)
}

#[test]
fn a_workflow_runs_all_units_and_merges_the_results() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals", "-n", "2"]);
    let emitted = world.run(&["emit", "github-matrix", "s.gevals", "--jobs", "3"]).expect(0, &[]).out;
    let (document, script) = workflow(&emitted);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (pack, digest) = (text(&document["env"]["PACK"]), text(&document["env"]["DIGEST"]));
    assert_eq!(pack, "s.gevals");
    let units = &document["jobs"]["units"];
    assert_eq!(units["env"]["SHOP_TOKEN"], "${{ secrets.SHOP_TOKEN }}");
    assert_eq!(units["env"]["NO"], "${{ vars.NO }}");
    assert_eq!(units["env"]["HOME"], Value::Null);
    let shards = units["strategy"]["matrix"]["shard"].as_array().unwrap();
    assert_eq!(shards.len(), 3);
    let run = |digest: &str, shard: &str| {
        let env = [("PACK", &*pack), ("DIGEST", digest), ("OUT", "out"), ("SHARD", shard)];
        world.start(job(&world, &script("units", "units"), &env)).end()
    };
    run("sha256:none", "1/3").expect(2, &["is not the pack that this file was made for"]);
    assert!(!world.path("out").exists());
    for shard in shards {
        let shard = text(&units["env"]["SHARD"]).replace("${{ matrix.shard }}", &shard.to_string());
        // A failed task does not fail its job.
        run(&digest, &shard).expect(0, &[]);
    }
    let merge = || world.start(job(&world, &script("results", "merge"), &[("PACK", &*pack)])).end();
    // One of the tasks fails, which `result verify` reports; `xargs` turns that into status 123.
    merge().expect(123, &["4 results of 4 files", "`bad`"]);
    assert_eq!(json(&world, "results/results.json")["summary"]["complete"], true);
    // A unit that could not run fails its job, but the next ones still run.
    broken(&world, 3);
    run(&digest, "1/3").expect(3, &[]);
    assert_eq!(world.read("tried"), "3\n3\n");
}

#[test]
fn a_signalled_job_lets_its_unit_clean_up() {
    let world = slow();
    let script = world.run(&["emit", "slurm", "s.gevals"]).expect(0, &["#SBATCH --array=1-1"]).out;
    let running = world.start(job(&world, &script, &[("SLURM_ARRAY_TASK_ID", "1")]));
    world.wait_for("here");
    running.signal(Signal::TERM);
    running.end().expect(143, &[]);
    assert_eq!((world.path("made").exists(), world.read("log").as_str()), (false, "cleaned\n"));
    assert_eq!(world.survivors(), Vec::<String>::new());
}

/// Jobs upload their results to a store, and the merge reads them from there: `tests/store.rs` uses a real one.
#[test]
fn with_a_store_every_engine_uploads_results_and_merges_from_it() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals"]);
    let store = |engine: &str| {
        let image = if PODS.contains(&engine) { &["--image", "i"][..] } else { &[] };
        let args = [&["emit", engine, "s.gevals", "--store", "s3://evals/nightly/"], image].concat();
        world.run(&args).expect(0, &[]).out
    };
    let place = Regex::new(r"s3://evals/nightly/gevals-e-[0-9a-f]{8}").unwrap();
    let mut places = BTreeSet::new();
    for engine in ["github-matrix", "slurm", "kubernetes-job", "argo", "tekton"] {
        let text = store(engine);
        places.extend(place.find_iter(&text).map(|found| found.as_str().to_owned()));
        let pushes = "gevals result push \"$OUT/$id\" \"$STORE/units/$id\" --replace || ((broken)) || broken=3";
        assert_eq!(text.matches(pushes).count(), 1, "{engine}");
        if engine != "slurm" {
            assert_eq!(text.matches("--pack \"$PACK\" \"$STORE/units\"").count(), 1, "{engine}");
            assert!(!text.contains("--pack \"$PACK\" \"$OUT\"") && !text.contains("--pack \"$PACK\" out"), "{engine}");
        }
        if PODS.contains(&engine) {
            assert_eq!(text.matches("secretRef: {name: gevals-e-store, optional: true}").count(), 2, "{engine}");
            assert!(text.contains("--from-literal=AWS_SECRET_ACCESS_KEY=\"$AWS_SECRET_ACCESS_KEY\""), "{engine}");
        }
    }
    assert_eq!(places.len(), 1, "{places:?}");
    let (document, _) = workflow(&store("github-matrix"));
    for job in ["units", "results"] {
        let env = &document["jobs"][job]["env"];
        assert_eq!(env["AWS_ACCESS_KEY_ID"], "${{ secrets.AWS_ACCESS_KEY_ID }}");
        assert_eq!(env["AWS_ENDPOINT_URL"], "${{ vars.AWS_ENDPOINT_URL }}");
        let install = document["jobs"][job]["steps"][1]["run"].as_str().unwrap();
        assert!(install.ends_with(" -F store"), "{install}");
    }
    for (url, said) in [
        ("evals/nightly", "write it as s3://"),
        ("https://evals/nightly", "write it as s3://"),
        ("s3:///", "a bucket and a path"),
        ("s3://evals/$(touch pwned)", "write other characters as %XX"),
        ("s3://evals/{{x}}", "write other characters as %XX"),
    ] {
        world.run(&["emit", "slurm", "s.gevals", "--store", url]).expect(2, &["is not a store", said]);
    }
}

#[test]
fn packs_that_an_engine_cannot_start_are_rejected() {
    let world = suite();
    pack_up(&world, &["-o", "s.gevals"]);
    world.run(&["emit", "slurm", "s.gevals", "--jobs", "3"]).expect(2, &["2 units are too few for 3 jobs"]);
    world.run(&["emit", "github-matrix", "s.gevals", "--jobs", "257"]).expect(2, &["at most 256 jobs"]);
    world.run(&["emit", "github-matrix", "s.gevals", "--at", "${{ x }}"]).expect(2, &["`${{`"]);
    world.run(&["emit", "slurm", "s.gevals", "--at", "a\nb"]).expect(2, &["on a single line"]);
    world.run(&["emit", "nomad", "s.gevals"]).expect(2, &["github-matrix", "kubernetes-job", "argo", "tekton"]);
    world.run(&["emit", "slurm", "p/eval.yaml"]).expect(2, &["not a pack"]);
    // No path is interpreted by a shell.
    let script = world.run(&["emit", "slurm", "s.gevals", "--at", "a'; touch pwned; '"]).expect(0, &[]).out;
    world.start(job(&world, &script, &[("SLURM_ARRAY_TASK_ID", "1")])).end();
    assert!(!world.path("pwned").exists());
    // Each unit is in exactly one of the jobs.
    let shard = |part: &str| world.run(&["units", "s.gevals", "--ids", "--shard", part]).expect(0, &[]).out;
    assert_eq!(
        format!("{}{}", shard("1/2"), shard("2/2")),
        world.run(&["units", "s.gevals", "--ids"]).expect(0, &[]).out
    );
}
