//! `builtin:kubernetes` with a real Kubernetes API: the pages in `kubernetes/`, one per topic, each in its own
//! namespace.
//!
//! A page is a list of calls: the operation with its arguments, then `passes`, `fails` or `broken` with a part of the
//! message, and `outputs`, of which those listed are compared; `within: N` repeats the call for at most N seconds. `NS`
//! is the namespace of the page, `$NAME` an output stored by `keep: {NAME: OUTPUT}`.
//!
//! The API is that of `GEVALS_TEST_KUBECONFIG`, or one that is started from `KUBEBUILDER_ASSETS` or `PATH`. If there is
//! neither, the test reports that it did not run. If the API has nodes of its own, they run the pods; the parts that
//! depend on the simulated kubelet are then not run, which is reported. Otherwise, the tests simulate the kubelet for
//! their namespaces, which begin with `gevals-`.
#![cfg(all(feature = "kubernetes", target_os = "linux"))]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gevals::{
    bash::types::{self, Shape, Type},
    cluster::plane,
    kubernetes::{self, operation::OPERATIONS},
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{Mutex as Turn, oneshot},
    task::JoinHandle,
};

use crate::support::{kubelet, world::World};

/// A control plane, stopped when it is dropped.
struct Plane {
    kubeconfig: PathBuf,
    own: Option<tempfile::TempDir>,
    /// Stopped at the end of the test.
    kubelet: Option<JoinHandle<()>>,
}

impl Plane {
    async fn up() -> Option<Self> {
        let mut plane = Self::begin()?;
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(plane.client().await);
        match nodes.list(&Default::default()).await.unwrap().items.is_empty() {
            true => plane.kubelet = Some(tokio::spawn(kubelet::run(plane.client().await, "gevals-"))),
            false => eprintln!("NOT RUN: the page of states, which only a kubelet of the test can bring about"),
        }
        Some(plane)
    }

    fn begin() -> Option<Self> {
        if let Some(path) = std::env::var_os("GEVALS_TEST_KUBECONFIG") {
            return Some(Self { kubeconfig: path.into(), own: None, kubelet: None });
        }
        if !plane::missing().is_empty() {
            eprintln!("NOT RUN: no Kubernetes API (set GEVALS_TEST_KUBECONFIG, or KUBEBUILDER_ASSETS)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = tokio::task::block_in_place(|| plane::up(folder.path())).unwrap();
        Some(Self { kubeconfig, own: Some(folder), kubelet: None })
    }

    async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.kubelet.iter().for_each(JoinHandle::abort);
        if let Some(folder) = &self.own {
            plane::down(folder.path()).unwrap();
        }
    }
}

type Waiting = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Value>>>>;

/// The extension, as a process; calls run in parallel.
struct Extension {
    _child: Child,
    /// The run to which these calls belong.
    run_id: String,
    input: Turn<ChildStdin>,
    next: AtomicU64,
    waiting: Waiting,
}

impl Extension {
    async fn start(kubeconfig: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gevals"));
        command.arg(kubernetes::ARGUMENT).env("KUBECONFIG", kubeconfig);
        Self::start_by(command).await
    }

    async fn start_by(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let waiting = Waiting::default();
        let answers = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                let answer: Value = serde_json::from_str(&line).unwrap();
                let waits = answers.lock().unwrap().remove(&answer["id"].as_u64().unwrap()).unwrap();
                let _ = waits.send(answer);
            }
        });
        let run_id = format!("test-{:016x}", fastrand::u64(..));
        let extension = Self { _child: child, run_id, input: Turn::new(input), next: AtomicU64::new(1), waiting };
        let manifest = extension.request("initialize", json!({"protocolVersion": "0.0.1"})).await;
        assert_eq!(manifest["result"], kubernetes::manifest());
        extension
    }

    async fn request(&self, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, answer);
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.input.lock().await.write_all(line.as_bytes()).await.unwrap();
        answered.await.unwrap()
    }

    async fn execute(&self, operation: &str, args: &Value) -> Value {
        let context = json!({"workdir": folder(), "phase": "", "runId": self.run_id});
        self.request("execute", json!({"operation": operation, "args": args, "context": context})).await
    }

    /// Calls an operation that must succeed, and returns its outputs.
    async fn does(&self, operation: &str, args: Value) -> Value {
        let answer = self.execute(operation, &args).await;
        assert_eq!(answer["result"]["success"], true, "{operation} {args}: {answer}");
        answer["result"]["outputs"].clone()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes")
}

/// A call of a page.
#[derive(Debug, Deserialize)]
struct Step {
    passes: Option<String>,
    fails: Option<String>,
    broken: Option<String>,
    #[serde(default)]
    outputs: Map<String, Value>,
    /// In seconds.
    #[serde(default)]
    within: u64,
    #[serde(default)]
    keep: BTreeMap<String, String>,
    /// The operation and its arguments.
    #[serde(flatten)]
    call: Map<String, Value>,
}

/// One control plane for all parts: it needs half a gigabyte of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_extension_works_on_a_real_api() {
    let Some(plane) = Plane::up().await else { return };
    operations_do_what_their_pages_say(&plane).await;
    waits_go_side_by_side(&plane).await;
    evals_run_on_a_cluster(&plane).await;
    generated_namespaces_end_with_their_task(&plane).await;
    clusters_are_found_as_kubectl_finds_them(&plane).await;
    operations_do_what_kubectl_does(&plane).await;
    prove_names_what_stays_in_a_cluster(&plane).await;
    invalid_manifests_are_refused_by_the_api(&plane).await;
    the_table_has_every_field_of_the_api(&plane).await;
}

async fn operations_do_what_their_pages_say(plane: &Plane) {
    let extension = Arc::new(Extension::start(&plane.kubeconfig).await);
    let mut pages: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let helm = std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join("helm").is_file());
    if !helm {
        eprintln!("NOT RUN: the page of helm, for want of helm");
    }
    let node = node(plane).await;
    let lacks = |path: &PathBuf| {
        !helm && path.ends_with("helm.yaml")
            || node.is_none() && path.ends_with("pods.yaml")
            || plane.kubelet.is_none() && path.ends_with("states.yaml")
    };
    pages.retain(|path| path.extension().is_some_and(|e| e == "yaml") && !lacks(path));
    pages.sort();
    let running = pages.into_iter().map(|path| tokio::spawn(page(path, Arc::clone(&extension))));
    let mut seen: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    let mut faults = Vec::new();
    for page in running.collect::<Vec<_>>() {
        let (verdicts, found) = page.await.unwrap();
        for (name, verdict) in verdicts {
            seen.entry(name).or_default().insert(verdict);
        }
        faults.extend(found);
    }
    // Everything that this process generated: the namespaces of the pages.
    let selector = format!("gevals/run={}", extension.run_id);
    let generated = json!({"kind": "namespace", "selector": selector, "fields": "status.phase=Active", "min": 5});
    extension.does("count", generated).await;
    extension.does("deleteGeneratedNamespaces", json!({})).await;
    let left = json!({"kind": "namespace", "selector": selector, "fields": "status.phase=Active", "equals": 0});
    extension.does("count", left).await;
    seen.entry("deleteGeneratedNamespaces".to_owned()).or_default().insert("passes");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    for operation in OPERATIONS {
        let verdicts = seen.get(operation.name).cloned().unwrap_or_default();
        // Operations that require a program or a node that is not available.
        let absent = match operation.name {
            "exec" | "logs" => node.is_none(),
            name => !helm && name.starts_with("helm"),
        };
        assert!(verdicts.contains("passes") || absent, "no call of `{}` passes", operation.name);
        assert!(
            verdicts.len() > 1 || absent || operation.name == "deleteGeneratedNamespaces",
            "no call of `{}` fails",
            operation.name
        );
    }
}

/// A node whose kubelet answers requests for logs and commands; stopped when it is dropped.
async fn node(plane: &Plane) -> Option<Child> {
    let Some(folder) = &plane.own else {
        eprintln!("NOT RUN: the page of pods, for want of a node of its own");
        return None;
    };
    let certs = folder.path().join("certs");
    let mut kubelet = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/kubelet.py"))
        .args([certs.join("apiserver.crt"), certs.join("apiserver.key")])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(kubelet.stdout.take().unwrap()).lines();
    let port: u16 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(plane.client().await);
    let node =
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fake"}})).unwrap();
    nodes.create(&Default::default(), &node).await.unwrap();
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    nodes.patch_status("fake", &Default::default(), &kube::api::Patch::Merge(status)).await.unwrap();
    Some(kubelet)
}

async fn page(path: PathBuf, extension: Arc<Extension>) -> (Vec<(String, &'static str)>, Vec<String>) {
    let text = std::fs::read_to_string(&path).unwrap();
    let made = extension.execute("createNamespace", &json!({"prefix": "gevals-page"})).await;
    let namespace = made["result"]["outputs"]["namespace"].as_str().unwrap().to_owned();
    let mut words = BTreeMap::from([("NS".to_owned(), namespace.clone())]);
    let steps: Vec<Value> = serde_yaml::from_str(&text).unwrap();
    let (mut verdicts, mut faults) = (Vec::new(), Vec::new());
    for step in steps {
        let mut text = step.to_string();
        for (word, value) in &words {
            text = text.replace(&format!("${word}"), value);
        }
        let step: Step = serde_json::from_str(&text).unwrap();
        let (operation, args) = step.call.iter().next().unwrap();
        let begun = Instant::now();
        let mut answer = extension.execute(operation, args).await;
        while answer["result"]["success"] == false && begun.elapsed() < Duration::from_secs(step.within) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            answer = extension.execute(operation, args).await;
        }
        if std::env::var_os("GEVALS_SHOW").is_some() {
            println!("{:5.1} s {operation} {args}", begun.elapsed().as_secs_f64());
        }
        let (verdict, message) = match (&answer["error"], &answer["result"]["success"]) {
            (Value::Object(error), _) => ("broken", &error["message"]),
            (_, Value::Bool(true)) => ("passes", &answer["result"]["message"]),
            _ => ("fails", &answer["result"]["error"]),
        };
        let wanted = [("passes", &step.passes), ("fails", &step.fails), ("broken", &step.broken)];
        let Some((wanted, part)) = wanted.into_iter().find_map(|(name, part)| Some((name, part.as_deref()?))) else {
            panic!("{}: `{operation}` says no verdict", path.display());
        };
        let outputs = &answer["result"]["outputs"];
        let differs = step.outputs.iter().find(|(name, value)| outputs.get(*name) != Some(value));
        let message = message.as_str().unwrap_or_default();
        if wanted != verdict || !message.contains(part) || differs.is_some() {
            faults.push(format!(
                "{}: {operation} {args}\n  {wanted}: {part} {differs:?}\n  {verdict}: {message} {outputs}",
                path.display()
            ));
        }
        for (word, output) in step.keep {
            words.insert(word, outputs[&output].as_str().unwrap_or_default().to_owned());
        }
        verdicts.push((operation.clone(), verdict));
    }
    (verdicts, faults)
}

/// Without the program that an operation requires, there is no result.
#[tokio::test]
async fn helm_operations_are_broken_without_helm() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gevals"));
    command.arg(kubernetes::ARGUMENT).env("PATH", "/nowhere");
    let extension = Extension::start_by(command).await;
    let answer = extension.execute("helmList", &json!({})).await;
    assert_eq!(answer["error"]["message"], "`helm` is not on the PATH", "{answer}");
}

/// What the rule `invalid-manifest` reports is refused by the API or lost, and what it does not report is accepted.
async fn invalid_manifests_are_refused_by_the_api(plane: &Plane) {
    let deployment = || {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}],
                    "env": [{"name": "PORT", "value": "80"}], "resources": {"limits": {"cpu": 1, "memory": "64Mi"}}}]}}}})
    };
    let job = || {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "sum", "image": "busybox", "args": ["true"]}]}}}})
    };
    let service = || {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}})
    };
    let settings =
        || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"port": "80"}});
    // The manifest, the parent of the changed field, the field, and its value.
    let faults: [(Value, &str, &str, Value); 18] = [
        (deployment(), "/spec", "replica", json!(3)),
        (deployment(), "/spec", "replicas", json!("3")),
        (deployment(), "/spec/selector/matchLabels", "app", json!("api")),
        (deployment(), "/spec/template/spec", "restartPolicy", json!("Never")),
        (deployment(), "/spec/template/spec/containers/0", "port", json!([{"containerPort": 80}])),
        (deployment(), "/spec/template/spec/containers/0/ports/0", "containerPort", json!("80")),
        (deployment(), "/spec/template/spec/containers/0/env/0", "value", json!(80)),
        (deployment(), "/spec/template/spec/containers/0/env/0", "value", json!(true)),
        (deployment(), "/spec/template/metadata/labels", "tier", json!(1.5)),
        (deployment(), "/metadata", "name", json!("Web_1")),
        (job(), "/spec/template/spec", "restartPolicy", json!("Always")),
        (job(), "/spec", "backoffLimit", json!("3")),
        (service(), "/spec", "selectors", json!({"app": "web"})),
        (service(), "/spec/selector", "app", json!(1)),
        (service(), "/spec/ports/0", "port", json!("80")),
        (service(), "/spec/ports/0", "targetport", json!(80)),
        (settings(), "/data", "port", json!(80)),
        (settings(), "/metadata", "name", json!("my settings")),
    ];
    let client = plane.client().await;
    let world = World::new(&[]);
    for right in [deployment(), job(), service(), settings()] {
        assert_eq!(refusal(&client, &right).await, None, "{right}");
        assert!(!reports(&world, &right), "{right}");
    }
    for (right, parent, field, value) in faults {
        let mut wrong = right.clone();
        wrong.pointer_mut(parent).unwrap()[field] = value;
        assert!(refusal(&client, &wrong).await.is_some(), "the API accepts {wrong}");
        assert!(reports(&world, &wrong), "not reported: {wrong}");
    }
}

/// Whether `check` reports a manifest that setup applies.
fn reports(world: &World, manifest: &Value) -> bool {
    let text = serde_json::to_string(manifest).unwrap();
    world.write(
        "t.yaml",
        &format!(
            "kind: Task\nmetadata: {{name: t}}\nsteps:\n  setup:\n    inline: |\n      #!/usr/bin/env bash\n      set -e\n      kubectl apply -f - <<'EOF'\n      {text}\n      EOF\n  verify:\n    inline: kubectl get pod web\n  prompt:\n    inline: x\n"
        ),
    );
    world.run(&["check", "--no-cache", "t.yaml"]).out.contains("invalid-manifest")
}

/// Sends an object to the API, without keeping it. Returns the fault, if any; a field that the API does not keep is one.
async fn refusal(client: &Client, object: &Value) -> Option<String> {
    let sent: kube::api::DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = kube::api::GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let objects: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(client.clone(), "default", &kube::api::ApiResource::from_gvk(&kind));
    let dry = kube::api::PostParams { dry_run: true, ..Default::default() };
    match objects.create(&dry, &sent).await {
        Ok(kept) => lost(object, &serde_json::to_value(kept).unwrap()).then(|| "a field is lost".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Whether a field of an object is missing in another one.
fn lost(sent: &Value, kept: &Value) -> bool {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            sent.iter().any(|(name, value)| kept.get(name).is_none_or(|kept| lost(value, kept)))
        }
        (Value::Array(sent), Value::Array(kept)) => sent.iter().zip(kept).any(|(sent, kept)| lost(sent, kept)),
        _ => false,
    }
}

/// A field that the table of types lacks would be reported as unknown.
async fn the_table_has_every_field_of_the_api(plane: &Plane) {
    let request = axum::http::Request::get("/openapi/v2").body(Vec::new()).unwrap();
    let text = plane.client().await.request_text(request).await.unwrap();
    let api: Value = serde_json::from_str(&text).unwrap();
    let definitions = api["definitions"].as_object().unwrap();
    let kubectl = gevals::bash::tools::tool("kubectl").unwrap();
    let mut compared = BTreeSet::new();
    for kind in kubectl.kinds() {
        let (Some(known), Some(version)) = (types::of_kind(kind), types::version(kind)) else { continue };
        let is_kind = |schema: &&Value| {
            schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten().any(|known| {
                let group = known["group"].as_str().unwrap();
                let own = known["version"].as_str().unwrap();
                let own = if group.is_empty() { own.to_owned() } else { format!("{group}/{own}") };
                known["kind"].as_str().unwrap().to_lowercase() == kind && version == own
            })
        };
        if let Some(schema) = definitions.values().find(is_kind) {
            compare_types(kind, schema, known, definitions, &mut compared);
        }
    }
    assert!(compared.len() > 200, "{}", compared.len());
}

/// Compares the fields of a definition with those of the table, and those of the definitions that it names.
fn compare_types<'a>(
    place: &str,
    schema: &'a Value,
    known: Type,
    definitions: &'a Map<String, Value>,
    compared: &mut BTreeSet<&'a str>,
) {
    if let Some(name) = schema["$ref"].as_str() {
        if compared.insert(name) {
            compare_types(place, &definitions[name.rsplit('/').next().unwrap()], known, definitions, compared);
        }
        return;
    }
    match known.shape() {
        Shape::List(item) => compare_types(place, &schema["items"], item, definitions, compared),
        Shape::Map(value) => compare_types(place, &schema["additionalProperties"], value, definitions, compared),
        Shape::Object => {
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                let place = format!("{place}.{name}");
                let known = known.field(name).unwrap_or_else(|| panic!("the table has no field {place}"));
                compare_types(&place, schema, known, definitions, compared);
            }
        }
        Shape::Number => assert!(matches!(schema["type"].as_str(), Some("integer" | "number")), "{place}"),
        Shape::Boolean => assert_eq!(schema["type"], "boolean", "{place}"),
        Shape::Text(_) | Shape::Either => assert!(matches!(schema["type"].as_str(), Some("string") | None), "{place}"),
        Shape::Unknown => {}
    }
}

/// A hundred waits on one connection take as long as one.
async fn waits_go_side_by_side(plane: &Plane) {
    let extension = Extension::start(&plane.kubeconfig).await;
    let args = json!({"resource": "configmap/late", "created": true, "timeout": "30s"});
    let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "default"}});
    let begun = Instant::now();
    let waits = futures_util::future::join_all((0..100).map(|_| extension.execute("wait", &args)));
    let late = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        extension.execute("create", &made).await
    };
    let (waits, made) = tokio::join!(waits, late);
    assert_eq!(made["result"]["success"], true, "{made}");
    assert!(waits.iter().all(|wait| wait["result"]["success"] == true), "{waits:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let gone = extension.execute("delete", &json!({"resource": "configmap/late"})).await;
    assert_eq!(gone["result"]["success"], true, "{gone}");
}

const EVAL: &str = r#"
kind: Eval
metadata: {name: kube}
config:
  agent: {type: builtin.noop}
  extensions: {up: {package: "https://github.com/mcpchecker/kubernetes-extension@v0.0.3"}}
  taskSets: [{glob: "tasks/*.yaml"}]
"#;

/// A task of the portable dialect with this verify step.
fn task(name: &str, verify: &str) -> String {
    format!(
        r#"
kind: Task
apiVersion: mcp-eval/v1
metadata: {{name: {name}}}
spec:
  imports: [{{package: github.com/gevals/ext-kubernetes@v1, as: k8s}}]
  env: {{NS: "gevals-eval-{name}-{{random.id}}"}}
  prompt: Look.
  setup:
    - k8s.create-namespace: {{name: "{{env.NS}}", labels: {{test/eval: "yes"}}}}
    - k8s.apply: {{file: web.yaml, namespace: "{{env.NS}}"}}
  verify:
    - {verify}
  cleanup:
    - k8s.delete-namespace: {{name: "{{env.NS}}"}}
"#
    )
}

const STEPS: &str = r#"
kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: {name: steps}
spec:
  requires: [{extension: up}]
  prompt: {inline: Look.}
  setup:
    - up.createNamespace: {prefix: gevals-eval-steps}
  verify:
    - up.authCanI: {verb: get, resource: pods, as: bob, expect: {allowed: false}}
  cleanup:
    - up.deleteGeneratedNamespaces: {}
"#;

/// Whole evals, run with the command: setup, verdicts, and nothing left behind.
async fn evals_run_on_a_cluster(plane: &Plane) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tasks")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("eval.yaml", EVAL);
    write("tasks/web.yaml", &std::fs::read_to_string(self::folder().join("files/web.yaml")).unwrap());
    write("tasks/steps.yaml", STEPS);
    let get =
        "k8s.get: {resource: deploy/web, namespace: \"{env.NS}\", jsonpath: .spec.replicas, expect: {value: VALUE}}";
    for (name, verify) in [
        ("passes", "k8s.rollout: {resource: deploy/web, namespace: \"{env.NS}\", timeout: 30s}".to_owned()),
        ("fails", "k8s.resource-exists: {resource: deploy/wbe, namespace: \"{env.NS}\"}".to_owned()),
        ("two", get.replace("VALUE", "2")),
        ("three", get.replace("VALUE", "3")),
        ("text", get.replace("VALUE", "\"2\"")),
        ("gone", "k8s.wait: {resource: deploy/web, namespace: \"{env.NS}\", deleted: true, timeout: 500ms}".to_owned()),
        ("broken", "k8s.get: {resource: \"{env.NS}\", namespace: \"{env.NS}\"}".to_owned()),
    ] {
        write(&format!("tasks/{name}.yaml"), &task(name, &verify));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_gevals"))
        .args(["run", "eval.yaml"])
        .current_dir(folder.path())
        .env("KUBECONFIG", &plane.kubeconfig)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let results: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("gevals-kube-out.json")).unwrap_or_default())
            .expect(&said);
    let found: BTreeMap<_, _> = results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| (result["taskName"].as_str().unwrap(), result["outcome"].as_str().unwrap()))
        .collect();
    let wanted = [
        ("broken", "broken"),
        ("fails", "failed"),
        ("gone", "failed"),
        ("passes", "passed"),
        ("steps", "passed"),
        ("text", "failed"),
        ("three", "failed"),
        ("two", "passed"),
    ];
    assert_eq!(found, BTreeMap::from(wanted), "{said}");
    let extension = Extension::start(&plane.kubeconfig).await;
    let left = json!({"kind": "ns", "selector": "test/eval", "fields": "status.phase=Active", "equals": 0});
    extension.does("count", left).await;
}

/// What setup creates in a cluster and cleanup does not delete; objects that are deleted with their namespace do not
/// count.
async fn prove_names_what_stays_in_a_cluster(plane: &Plane) {
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.script, path: oracle.yaml}\n  taskSets: [{path: t.yaml}]\n",
        ),
        ("oracle.yaml", "kind: Oracle\ntasks: {t: {output: Done}}\n"),
    ]);
    let task = |cleanup: &str| {
        let text = r#"
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: t}
spec:
  imports: [{package: "builtin:kubernetes", as: k8s}]
  env: {NS: "gevals-eval-{random.id}"}
  prompt: Look.
  setup:
    - k8s.create-namespace: {name: "{env.NS}"}
    - k8s.create: {apiVersion: v1, kind: ConfigMap, metadata: {name: "stays-{random.id}", namespace: default}}
    - k8s.create: {apiVersion: v1, kind: ConfigMap, metadata: {name: goes, namespace: "{env.NS}"}}
  verify:
    - command: {run: 'test "$ANSWER" = Done', env: {ANSWER: "{agent.output}"}}
  cleanup:
    - k8s.delete-namespace: {name: "{env.NS}"}
"#;
        world.write("t.yaml", &format!("{text}{cleanup}"));
        let mut command = world.command(&["prove", "eval.yaml"]);
        command.env("KUBECONFIG", &plane.kubeconfig);
        tokio::task::block_in_place(|| world.start(command).end_within(Duration::from_secs(120)))
    };
    let ran =
        task("").expect(1, &["left behind: `ConfigMap stays-", " in default` (Kubernetes)", "1 of 1 tasks not proved"]);
    assert!(!ran.out.contains("goes") && !ran.out.contains("Namespace"), "{}", ran.out);
    let cleanup = "    - k8s.delete: {apiVersion: v1, kind: ConfigMap, metadata: {name: \"stays-{random.id}\", namespace: default}}\n";
    let ran = task(cleanup).expect(0, &["1 of 1 mutants detected (100 %)"]);
    assert!(!ran.out.contains("left behind") && !ran.out.contains("not looked at"), "{}", ran.out);
}

/// A task that generates a namespace and logs its name.
const GENERATES: &str = r#"
kind: Task
apiVersion: mcp-eval/v1
metadata: {name: NAME, parallel: true}
spec:
  imports: [{package: "builtin:kubernetes", as: k8s}]
  prompt: Look.
  setup:
    - k8s.createNamespace: {id: made, prefix: gevals-eval}
    - command: {run: "echo {steps.made.outputs.namespace} > WORLD/NAME.made"}
    - THEN
  verify:
    - k8s.get: {resource: "ns/{steps.made.outputs.namespace}", jsonpath: "{.status.phase}", expect: {value: Active}}
  cleanup:
    - k8s.deleteGeneratedNamespaces: {}
    - command: {run: "touch WORLD/NAME.cleaned"}
"#;

/// Even if the process that generated them is gone: after a timeout, and after gevals was killed. No task deletes the
/// namespaces of another.
async fn generated_namespaces_end_with_their_task(plane: &Plane) {
    const EVAL: &str = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  extensions: {timeout: 3s}\n  taskSets: [{glob: \"tasks/*.yaml\"}]\n";
    let patience = Duration::from_secs(60);
    let extension = Extension::start(&plane.kubeconfig).await;
    let active = async |world: &World, name: &str| {
        let made = world.read(&format!("{name}.made"));
        assert!(made.starts_with("gevals-eval-"), "{made}{}{}", world.read("stdout"), world.read("stderr"));
        let fields = format!("metadata.name={},status.phase=Active", made.trim());
        extension.does("count", json!({"kind": "namespace", "fields": fields})).await["count"] == 1
    };
    let world = |tasks: &[(&str, &str)]| {
        let world = World::new(&[("eval.yaml", EVAL)]);
        for (name, then) in tasks {
            let text = GENERATES.replace("THEN", then).replace("NAME", name);
            world.write(&format!("tasks/{name}.yaml"), &text);
        }
        // A helm that never ends.
        world.program("helm", "#!/bin/sh\nexec sleep 600\n");
        world
    };
    let command = |world: &World, args: &[&str]| {
        let mut command = world.command(args);
        command.env("KUBECONFIG", &plane.kubeconfig).env("PATH", world.programs());
        command
    };

    let late = world(&[("late", "k8s.helmInstall: {chart: none}")]);
    let ran = late.start(command(&late, &["run", "eval.yaml"]));
    tokio::task::block_in_place(|| ran.end_within(patience)).expect(1, &["1 broken", "it did not end within 3s"]);
    assert!(!active(&late, "late").await && late.path("late.cleaned").exists());

    let killed = world(&[("killed", "command: {run: \"touch WORLD/held; sleep 600\"}")]);
    let running = killed.start(command(&killed, &["run", "eval.yaml"]));
    let begun = Instant::now();
    while !killed.path("held").exists() {
        assert!(begun.elapsed() < patience, "{}{}", killed.read("stdout"), killed.read("stderr"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.signal(rustix::process::Signal::KILL);
    tokio::task::block_in_place(|| running.end());
    assert!(active(&killed, "killed").await);
    let recovery = killed.start(command(&killed, &["recover"]));
    tokio::task::block_in_place(|| recovery.end_within(patience)).expect(0, &["cleanup/0 is done"]);
    assert!(!active(&killed, "killed").await);

    let wait =
        "command: {run: \"for i in $(seq 200); do test -e WORLD/first.cleaned && exit; sleep 0.1; done; exit 1\"}";
    let both = world(&[("first", "command: {run: \"true\"}"), ("second", wait)]);
    let ran = both.start(command(&both, &["run", "eval.yaml", "--parallel", "2"]));
    tokio::task::block_in_place(|| ran.end_within(patience)).expect(0, &["2 of 2 tasks passed"]);
    assert!(!active(&both, "first").await && !active(&both, "second").await);
}

/// Lists of kubeconfigs, plugins for credentials, and the files of a pod.
async fn clusters_are_found_as_kubectl_finds_them(plane: &Plane) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let config: Value = serde_yaml::from_str(&std::fs::read_to_string(&plane.kubeconfig).unwrap()).unwrap();
    let of = |list: &str| config[list][0].clone();
    let there = json!({"resource": "namespace/default"});
    let own = plane.kubeconfig.display();

    // The files in a list may be missing, and the first value wins.
    let context = json!({"cluster": of("clusters")["name"], "user": of("users")["name"]});
    let first = json!({"current-context": "second", "contexts": [{"name": "second", "context": context}]});
    let first = write("first.yaml", &first.to_string());
    let extension = Extension::start(format!("/nowhere/a:{first}:{own}:/nowhere/b")).await;
    extension.does("resource-exists", there.clone()).await;
    assert_eq!(extension.does("getCurrentContext", json!({})).await["context"], "second");
    let extension = Extension::start("/nowhere/a:/nowhere/b").await;
    let answer = extension.execute("resource-exists", &there).await;
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("no cluster: nothing is at `/nowhere/a:/nowhere/b`"), "{why}");
    let broken = write("broken.yaml", "clusters: [");
    let extension = Extension::start(format!("{broken}:{own}")).await;
    let answer = extension.execute("resource-exists", &there).await;
    assert!(answer["error"]["message"].as_str().is_some_and(|why| why.starts_with("no kubeconfig: ")), "{answer}");

    let Some(token) = of("users")["user"]["token"].as_str().map(str::to_owned) else {
        eprintln!("NOT RUN: plugins for credentials, and the files of a pod: the kubeconfig has no token");
        return;
    };
    // The plugin returns the token in its environment.
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "TOKEN"}});
    let plugin = write("plugin", &format!("#!/bin/sh\necho '{credential}' | sed \"s/TOKEN/$OF_MINE/\"\n"));
    std::fs::set_permissions(&plugin, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = config.clone();
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": plugin,
        "args": ["--client-secret=hidden-1", "--password", "hidden-2", "--client-id=shown"],
        "env": [{"name": "OF_MINE", "value": token}],
    }});
    let extension = Extension::start(write("exec.yaml", &config.to_string())).await;
    extension.does("resource-exists", there.clone()).await;
    let shown = extension.does("viewConfig", json!({})).await["config"].as_str().unwrap().to_owned();
    assert!(shown.contains("OF_MINE") && shown.contains("--client-id=shown"), "{shown}");
    assert!(!shown.contains(&token) && !shown.contains("hidden-"), "{shown}");
    config["users"][0]["user"]["exec"]["env"][0]["value"] = "of-nobody".into();
    let extension = Extension::start(write("exec.yaml", &config.to_string())).await;
    let answer = extension.execute("resource-exists", &there).await;
    assert!(answer["error"]["message"].as_str().is_some_and(|why| why.contains("does not know this user")), "{answer}");

    // In a pod, its token and its certificate authority are at fixed paths.
    let (Some(own), Ok(bwrap)) = (&plane.own, gevals::sandbox::find()) else {
        eprintln!("NOT RUN: the files of a pod, for want of bubblewrap or of a control plane of its own");
        return;
    };
    write("token", &token);
    write("namespace", "default");
    write("ca.crt", &std::fs::read_to_string(own.path().join("certs/apiserver.crt")).unwrap());
    let port = of("clusters")["cluster"]["server"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    let mut command = Command::new(bwrap);
    command.args(["--dev-bind", "/", "/", "--tmpfs", "/run", "--ro-bind"]).arg(folder.path());
    command.args([
        "/run/secrets/kubernetes.io/serviceaccount",
        "--",
        env!("CARGO_BIN_EXE_gevals"),
        kubernetes::ARGUMENT,
    ]);
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
    command.env("HOME", folder.path()).env_remove("KUBECONFIG");
    Extension::start_by(command).await.does("resource-exists", there).await;
}

/// kubectl scripts, with the outcome of a task that verifies with them.
const SCRIPTS: [(&str, &str, &str); 13] = [
    (
        "replicas",
        "R=$(kubectl get deployment web -n NS -o jsonpath='{.spec.replicas}')\n[ \"$R\" = 2 ] || exit 1",
        "passed",
    ),
    (
        "three",
        "R=$(kubectl get deployment web -n NS -o jsonpath='{.spec.replicas}')\n[ \"$R\" = 3 ] || exit 1",
        "failed",
    ),
    ("there", "kubectl get service web -n NS", "passed"),
    ("missing", "kubectl get service wbe -n NS", "failed"),
    ("absent", "if kubectl get service wbe -n NS; then exit 1; fi", "passed"),
    ("present", "if kubectl get service web -n NS; then exit 1; fi", "failed"),
    ("available", "kubectl wait --for=condition=Available deployment/web -n NS --timeout=30s", "passed"),
    ("never", "kubectl wait --for=condition=Available deployment/wbe -n NS --timeout=3s", "failed"),
    ("path", "kubectl wait --for=jsonpath='{.status.readyReplicas}'=2 deployment/web -n NS --timeout=30s", "passed"),
    (
        "marked",
        "M=$(kubectl get deployment web -n NS -o jsonpath='{.metadata.labels.tier}')\nif [ \"$M\" != front ]; then exit 1; fi",
        "passed",
    ),
    (
        "empty",
        "set -e\nM=$(kubectl get deployment web -n NS -o jsonpath='{.metadata.labels.none}')\n[ -z \"$M\" ] || exit 1",
        "passed",
    ),
    ("may", "kubectl auth can-i get pods --as=system:serviceaccount:NS:default -n NS", "failed"),
    (
        "may-not",
        "if kubectl auth can-i get pods --as=system:serviceaccount:NS:default -n NS; then exit 1; fi",
        "passed",
    ),
];

/// The same tasks as kubectl scripts, and as the operations to which they are converted: the outcomes are the same.
async fn operations_do_what_kubectl_does(plane: &Plane) {
    if !Command::new("kubectl").args(["version", "--client"]).output().await.is_ok_and(|ran| ran.status.success()) {
        eprintln!("NOT RUN: there is no kubectl to compare operations with");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tasks")).unwrap();
    let eval = "kind: Eval\nmetadata: {name: pairs}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: \"tasks/*.yaml\"}]\n";
    std::fs::write(folder.path().join("eval.yaml"), eval).unwrap();
    let manifests = std::fs::read_to_string(self::folder().join("files/web.yaml")).unwrap();
    let block = |text: &str| text.lines().map(|line| format!("      {line}\n")).collect::<String>();
    for (name, verify, _) in SCRIPTS {
        let setup = format!(
            "set -e\nkubectl delete namespace NS --ignore-not-found\nkubectl create namespace NS\nkubectl apply -n NS -f - <<'EOF'\n{manifests}EOF\nkubectl label deployment web tier=front -n NS --overwrite\nkubectl rollout status deployment/web -n NS --timeout=60s\n"
        );
        let text = format!(
            "kind: Task\nmetadata: {{name: {name}, difficulty: easy}}\nsteps:\n  setup:\n    inline: |\n{}  verify:\n    inline: |\n{}  cleanup:\n    inline: |\n{}  prompt:\n    inline: Do nothing.\n",
            block(&setup),
            block(verify),
            block("kubectl delete namespace NS --ignore-not-found --wait=false"),
        );
        std::fs::write(
            folder.path().join(format!("tasks/{name}.yaml")),
            text.replace("NS", &format!("gevals-pair-{name}")),
        )
        .unwrap();
    }
    let gevals = async |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gevals"));
        command.args(args).current_dir(folder.path()).env("KUBECONFIG", &plane.kubeconfig).env("HOME", folder.path());
        let ran = command.output().await.unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
    };
    let converted = gevals(&["convert", "eval.yaml", "--target", "kubernetes", "--no-verify", "--out", "new"]).await;
    for (name, ..) in SCRIPTS {
        let task = std::fs::read_to_string(folder.path().join(format!("new/tasks/{name}.yaml"))).expect(&converted);
        let left = task.lines().any(|line| line.trim_start().starts_with("run: kubectl"));
        assert!(task.contains("k8s.apply:") && !left, "{task}");
    }
    let wanted: BTreeMap<_, _> = SCRIPTS.iter().map(|(name, _, outcome)| (*name, *outcome)).collect();
    for eval in ["eval.yaml", "new/eval.yaml"] {
        let said = gevals(&["run", eval, "--parallel", "4"]).await;
        let path = folder.path().join("gevals-pairs-out.json");
        let results = std::fs::read(&path).unwrap_or_default();
        std::fs::remove_file(path).expect(&said);
        let results: Value = serde_json::from_slice(&results).expect(&said);
        let list = results["results"].as_array().unwrap();
        let found: BTreeMap<_, _> = list
            .iter()
            .map(|result| (result["taskName"].as_str().unwrap(), result["outcome"].as_str().unwrap()))
            .collect();
        assert_eq!(found, wanted, "{eval}\n{said}");
    }
}
